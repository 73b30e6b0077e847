/** Runs a command on a terminal of its own, as a person would: by util-linux `script`. */
import { spawn, type ChildProcess } from 'node:child_process'
import { ensurePackage } from './debian-package.ts'
import { compileCache, sources } from './sources.ts'
import { temporaryFolder } from './processes.ts'

const quoted = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`

/** `tollgate ARGS`. Its standard output and standard error are one, as people see them; lines end with \n. */
export function onTerminal(
  args: readonly string[],
  { columns = 80, rows = 24, env = {} }: { columns?: number; rows?: number; env?: object } = {},
) {
  ensurePackage('util-linux', { probe: ['script', '--version'] })
  const line = [process.execPath, sources, ...args].map(quoted).join(' ')
  const child = spawn(
    'script',
    ['-qec', `stty cols ${columns} rows ${rows}; exec ${line}`, '/dev/null'],
    {
      cwd: temporaryFolder(),
      env: { PATH: process.env['PATH'], NODE_COMPILE_CACHE: compileCache, TERM: 'xterm', ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  let shown = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (shown += text))
  const lines = (): string => shown.replaceAll(/\r+\n/g, '\n')
  return {
    child: child as ChildProcess,
    /** All that the terminal was sent so far, control sequences too. */
    shown: lines,
    type: (keys: string) => void child.stdin.write(keys),
    finished: new Promise<{ code: number | null; shown: string }>((resolve) => {
      child.on('close', (code) => resolve({ code, shown: lines() }))
    }),
  }
}
