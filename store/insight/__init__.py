"""A store as a whole: its size and savings, the use and cost of answers, and which conversation branched off where."""
