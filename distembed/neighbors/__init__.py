"""From rows to graphs: nearest neighbors, spanning trees and affinities."""
