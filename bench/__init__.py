"""What Statekeep costs: each figure beside a floor that was measured in the same run, on the same server."""
