"""An engine that a third party could have written."""
