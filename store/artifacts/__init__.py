"""Full outputs of tools and of agents, kept beside a conversation under small ids of its own."""
