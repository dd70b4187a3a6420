"""Whether images that manifests name are pinned by digest, and whether their tags still have it."""
