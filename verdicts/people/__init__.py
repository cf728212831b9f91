"""What a person keeps and is told: settings, subscriptions, comments."""
