"""What an application imports: connect(), the settings, the real clock and the real disk."""
