"""A cluster that is reached through ZooKeeper."""
