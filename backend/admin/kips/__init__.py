"""What the seeds' KIPs add: by the cluster's own RPCs, else composed of Kafka's."""
