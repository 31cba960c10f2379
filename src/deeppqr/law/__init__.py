"""Laws of the next state, learned from data and chosen on held-out units. All private."""
