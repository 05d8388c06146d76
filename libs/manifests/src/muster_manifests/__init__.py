"""Kueue, Volcano, Kubernetes, Kubeflow, Ray and CI manifests to domain values and back."""
