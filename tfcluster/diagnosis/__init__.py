"""Why a job failed or stands still: evidence is gathered, kinds of causes are tried on it.

evidence    what is known of a run: states, causes, events, last lines
tracebacks  what Python says when it gives up, and where in the person's own code
clues       kinds of causes that a program's own words tell
failures    kinds that states, exit codes and events tell; the choice among all of them
stalls      a job that goes on and makes no progress: who waits for whom
verdict     what comes out
"""
