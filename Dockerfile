# The server as an image: wheels are made in the first stage, and only installed in the second.
FROM docker.io/library/python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY clients/python clients/python
COPY service service
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM docker.io/library/python:3.13-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels statekeep && rm -r /wheels
USER 65532:65532
EXPOSE 50051
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["statekeep", "health"]
ENTRYPOINT ["statekeep"]
CMD ["serve", "--listen", "0.0.0.0:50051"]
