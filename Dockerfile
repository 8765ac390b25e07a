# One image for console and runners: the console starts each pipeline's runner as a process of its own in the container.
#
#   docker build -t tidemark .
#   docker run -p 127.0.0.1:8501:8501 -v tidemark:/var/lib/tidemark -e SHOP_PASSWORD=… \
#       -v ./secrets.toml:/opt/tidemark/app/.streamlit/secrets.toml:ro tidemark
#   docker run -v tidemark:/var/lib/tidemark -e SHOP_PASSWORD=… tidemark python -m engine run /var/lib/tidemark/shop/pipeline.toml
#
# The mounted secrets.toml configures the login (docs/console.md). Without one the console shows nothing: in a container it
# cannot see who reaches its port. On a machine of your own, with the port published on 127.0.0.1 as here, you can open it instead:
# -e TIDEMARK_CONSOLE_EVERYBODY_IS_OPERATOR=1 makes an operator of everybody who reaches the port. The image never sets it.
# The volume holds every pipeline's spec, ledger and journal (TIDEMARK_HOME); a lake with a relative path lies in it too.
# Stopping the container kills its runners; what they had committed is whole, and they go on from there.
FROM python:3.11-slim-bookworm

# Java for Spark (17 in this Debian), and an init process that reaps the runners that end. The slim image lacks the
# folder that Java's packages put their manual pages' links into.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/tidemark

# Before the sources: a change of the code installs nothing again. Tests and tools stay out of the image.
COPY requirements.txt ./
COPY .ci/constraints.txt .ci/
RUN sed '/^# Tests and tools only/,$d' requirements.txt > runtime.txt \
    && pip install --no-cache-dir --requirement runtime.txt

COPY engine engine
COPY app app
COPY assets assets
COPY docs/glossary.md docs/
RUN python -m compileall -q engine app

RUN useradd --create-home --uid 1000 tidemark \
    && install --directory --owner=tidemark --group=tidemark /var/lib/tidemark
USER tidemark

ENV TIDEMARK_HOME=/var/lib/tidemark \
    PYTHONUNBUFFERED=1 \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_HEADLESS=true \
    STREAMLIT_SERVER_FILE_WATCHER_TYPE=none
VOLUME /var/lib/tidemark
EXPOSE 8501

HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=3)"]

ENTRYPOINT ["tini", "--"]
CMD ["python", "-m", "app.serve", "--server.port=8501"]
