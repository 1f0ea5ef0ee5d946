"""Put a motion on another body: posture, feet, hands, report."""
