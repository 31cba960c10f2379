"""Where actions lead, learned from data and chosen by held-out units. All private."""
