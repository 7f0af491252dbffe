"""A store as a whole: how much it holds and saves, what answers took and cost, what branched off where."""
