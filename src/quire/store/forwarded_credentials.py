"""Credentials for processes elsewhere: what this environment holds, as storage options."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_VARIABLES = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
_CARRIED = re.compile(
    r"aws_(access_key_id|secret_access_key|session_token|region|default_region|endpoint|endpoint_url|allow_http"
    r"|virtual_hosted_style_request)|google_service_account_key"
    r"|azure_(storage_account_name|storage_account_key|storage_sas_key|storage_sas_token|storage_client_id"
    r"|storage_client_secret|storage_tenant_id|client_id|client_secret|tenant_id)"
)
"""Environment variables that are credentials or say where the store is, as storage options. Files and services that a
machine has of its own are left to it."""


def carried(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """Options with the credentials of this environment, for a process that has another one. What is given wins."""
    prefix = _VARIABLES.get(scheme)
    ambient = {} if prefix is None else {k.lower(): v for k, v in os.environ.items() if k.startswith(prefix) and v}
    given = {key.lower() for key in options}
    return {**{k: v for k, v in ambient.items() if k not in given and _CARRIED.fullmatch(k)}, **options}
