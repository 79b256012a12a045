"""From rows to graphs: nearest neighbours, spanning trees and affinities."""
