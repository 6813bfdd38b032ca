"""The CSR shift on a GPU: a Triton kernel, or torch's own product where Triton is missing."""
