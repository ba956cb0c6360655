# A board program on any machine: the CPU reference computes. Beside this file: requirements.txt, which says where the wheel of
# rknnlite lies, detect.py, models/.
FROM python:3.12-slim
WORKDIR /app
COPY requirements.txt ./
RUN pip install --no-cache-dir -r requirements.txt
COPY detect.py ./
COPY models models
RUN rknnlite check models/*.rknn
ENV RKNNLITE_BACKEND=cpu
USER nobody
CMD ["python3", "detect.py", "models/net.rknn"]
