"""What a server tells about itself: metrics, probes, its log, and traces."""
