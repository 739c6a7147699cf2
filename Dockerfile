# Statekeep's server as an image. The first stage makes wheels and installs them into a virtual environment; the second
# only takes that over and runs nothing, so it holds neither a compiler nor caches.
# The base is pinned by version. Where builds must be the same byte for byte, pin it by digest too:
#   docker build --build-arg BASE=docker.io/library/python:3.13-slim@sha256:… .
ARG BASE=docker.io/library/python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY clients/python clients/python
COPY service service
RUN python -m pip wheel --no-cache-dir --wheel-dir /wheels .
RUN mkdir /data && python -m venv --without-pip /opt/statekeep \
 && python -m pip --python /opt/statekeep/bin/python install --no-cache-dir --no-index --find-links /wheels statekeep

FROM ${BASE}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Statekeep" \
      org.opencontainers.image.description="Keeps versioned memory, scratch values and event histories, over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /opt/statekeep /opt/statekeep
COPY --from=build --chown=65532:65532 /data /data
ENV PATH=/opt/statekeep/bin:$PATH
# A number, not a name: only of that can Kubernetes tell that it is not root's.
USER 65532:65532
WORKDIR /data
VOLUME /data
EXPOSE 50051
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["statekeep", "health", "--timeout", "3"]
ENTRYPOINT ["statekeep"]
# On the loopback of the container, as a sidecar is reached; deploy/README.md says how to be reached from outside it.
CMD ["serve"]
