"""Learners that the stages share: networks, boosted trees, bases, scaling. All private."""
