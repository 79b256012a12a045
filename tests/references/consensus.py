"""The mean topics of groups, one topic after the other."""

from __future__ import annotations

import numpy as np


def group_means(words, labels, cosines):
    """Return the mean of the unit topics of each group; a group without one takes the least of a larger group."""
    n_groups = cosines.shape[1]
    groups = [[t for t, label in enumerate(labels) if label == group] for group in range(n_groups)]
    for group in range(n_groups):
        if not groups[group]:
            spare = sorted(
                (cosines[topic, labels[topic]], topic)
                for members in groups
                if len(members) > 1
                for topic in members
            )
            topic = spare[0][1]
            next(members for members in groups if topic in members).remove(topic)
            groups[group] = [topic]
    unit = words / np.linalg.norm(words, axis=0)
    return np.column_stack([unit[:, members].mean(axis=1) for members in groups])
