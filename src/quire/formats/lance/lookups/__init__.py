"""Which fragments may hold a key: look-ups read those alone, however many fragments a table has."""
