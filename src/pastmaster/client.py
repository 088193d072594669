"""The service's client."""

from pastmaster.service.client import Asked, Client

__all__ = ["Asked", "Client"]
