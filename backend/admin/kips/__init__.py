"""What the seeds' KIPs add: by the cluster's own RPCs where it has them, else composed of Kafka's."""
