# The same program on a board: the vendor's librknnrt.so computes. The library, which is built for glibc, and the device come from
# the host:
#   docker run --device /dev/dri/renderD129 --group-add "$(stat -c %g /dev/dri/renderD129)" \
#       -v /usr/lib/librknnrt.so:/usr/lib/librknnrt.so:ro -e RKNNLITE_SOC=rk3588 IMAGE
FROM python:3.12-slim
WORKDIR /app
COPY requirements.txt ./
RUN pip install --no-cache-dir -r requirements.txt
COPY detect.py ./
COPY models models
RUN rknnlite check models/*.rknn
ENV RKNNLITE_BACKEND=rknnrt
USER nobody
CMD ["python3", "detect.py", "models/net.rknn"]
