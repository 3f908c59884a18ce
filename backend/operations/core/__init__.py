"""What every verb needs: the registry, the cluster, the lock, throttle writes."""
