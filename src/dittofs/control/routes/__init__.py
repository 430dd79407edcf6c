"""The resources of `/api/v1`: one file each; importing them declares their endpoints."""
