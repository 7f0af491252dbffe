"""Conversations written out in other forms than their own tool's: to be read, to be sent, to be taken up elsewhere."""
