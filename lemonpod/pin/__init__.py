"""Whether the container images that manifests name are pinned by digest. Needs no network and no engine."""
