"""What each broker holds, leads, sends and receives, for every view that shows brokers."""
