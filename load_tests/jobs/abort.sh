# A native library that calls abort(): the shell tells what became of it.
python3 -c 'import os; os.abort()'
exit $?
