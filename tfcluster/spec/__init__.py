"""From a templated cluster.yaml to a checked job: text, template, YAML, model, places, words."""
