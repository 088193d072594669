"""How the tables of the service came to be as they are."""
