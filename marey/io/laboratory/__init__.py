"""Files of laboratories: markers, force plates, analog channels, and what is known of the person."""
