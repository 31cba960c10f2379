"""What the stages learn with: networks, boosted trees, bases, scaling. All private."""
