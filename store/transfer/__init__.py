"""Conversations from one store to another: what a store offers, what another one lacks, and how it takes that."""
