#!/bin/bash
# Healthy when a login works and PING is answered, which it is not while data is being loaded.
# The password goes over the loopback connection and never onto a command line.
set -eu
exec 3<>/dev/tcp/127.0.0.1/6379
printf 'AUTH operator %s\r\nPING\r\n' "$MUSTER_REDIS_PASSWORD_OPERATOR" >&3
read -r -t 2 login <&3
read -r -t 2 answer <&3
[[ $login == +OK* && $answer == +PONG* ]]
