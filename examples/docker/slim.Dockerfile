# A board program on any machine: the CPU reference computes. Beside this file: requirements.txt, detect.py, models/, and
# wheels/ where pip finds rknnlite in no index.
FROM python:3.12-slim
WORKDIR /app
COPY requirements.txt ./
COPY wheels wheels
RUN pip install --no-cache-dir --find-links wheels -r requirements.txt
COPY detect.py ./
COPY models models
RUN rknnlite check models/*.rknn
ENV RKNNLITE_BACKEND=cpu
USER nobody
CMD ["python3", "detect.py", "models/net.rknn"]
