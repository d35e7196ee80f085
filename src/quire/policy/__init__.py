"""Who may do what in a lake: rules in Cedar, stored in the lake, and asked at the head of every verb."""
