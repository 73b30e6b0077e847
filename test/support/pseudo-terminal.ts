/** Runs a command on a terminal of its own, as a person would: by util-linux `script`. */
import { spawn, type ChildProcess } from 'node:child_process'
import { ensurePackage } from './debian-package.ts'
import { compileCache, sources } from './sources.ts'
import { temporaryFolder } from './processes.ts'

export interface OnTerminal {
  readonly child: ChildProcess
  /** All that the terminal was sent so far, control sequences too. */
  shown(): string
  type(keys: string): void
  readonly finished: Promise<{ readonly code: number | null; readonly shown: string }>
}

const quoted = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`

/** `tollgate ARGS`. Its standard output and standard error are one, as people see them; lines end with \n. */
export function onTerminal(
  args: readonly string[],
  { columns = 80, rows = 24, env = {} }: { columns?: number; rows?: number; env?: object } = {},
): OnTerminal {
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
    child,
    shown: lines,
    type: (keys) => void child.stdin.write(keys),
    finished: new Promise((resolve) => {
      child.on('close', (code) => resolve({ code, shown: lines() }))
    }),
  }
}
