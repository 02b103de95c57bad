# syntax=docker/dockerfile:1
# Any Debian-like image with Python 3.11 to 3.13, its venv module and util-linux (for setpriv) will do.
ARG BASE_IMAGE=python:3.12-slim-bookworm

FROM ${BASE_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
RUN python3 -m venv /opt/venv
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY schemas ./schemas
COPY docs/examples ./docs/examples
COPY packtool ./packtool
# Compiled here: the user at run time may not write into the image, and would compile every import again on each start.
# pip, and pyarrow's own tests and C++ headers, are of no use at run time.
RUN /opt/venv/bin/pip install --compile . \
 && rm -rf /opt/venv/lib/python3*/site-packages/pyarrow/tests \
           /opt/venv/lib/python3*/site-packages/pyarrow/include \
           /opt/venv/lib/python3*/site-packages/pip

FROM ${BASE_IMAGE} AS runtime
COPY --from=build /opt/venv /opt/venv
COPY --chmod=755 .docker/entrypoint.sh /usr/local/bin/packtool-entrypoint
# HOME: the user may be any number and have no home; /tmp is where a read-only container has its tmpfs.
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
WORKDIR /data
# No USER: the entrypoint becomes the owner of /data, whoever that is; `docker run --user` is left as it is.
ENTRYPOINT ["packtool-entrypoint"]
CMD ["--help"]
