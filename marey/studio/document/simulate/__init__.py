"""The live simulation of one page: settings, figure, controllers, recording."""
