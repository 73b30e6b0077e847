/** Real tollgate processes, started from the sources and stopped by pid. */
import { spawn } from 'node:child_process'
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gatewayEnds } from './ending.ts'
import { compileCache, sources } from './sources.ts'

export interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export type TollgateProcess = ReturnType<typeof startTollgate>

/**
 * Starts `tollgate ARGS`; cwd is a fresh folder, and main the sources' own, unless given. openFiles: how many files it may
 * have open. logFile: stderr is appended to this file instead of a pipe.
 */
export function startTollgate(
  args: readonly string[],
  {
    env = {},
    cwd = temporaryFolder(),
    main = sources,
    openFiles,
    logFile,
  }: {
    env?: Record<string, string>
    cwd?: string
    main?: string
    openFiles?: number
    logFile?: string
  } = {},
) {
  const limited = openFiles === undefined ? '' : `ulimit -n ${openFiles} && `
  const child = spawn(
    '/bin/sh',
    ['-c', `${limited}exec "$0" "$@"`, process.execPath, main, ...args],
    {
      cwd,
      env: { PATH: process.env['PATH'] ?? '', NODE_COMPILE_CACHE: compileCache, ...env },
      stdio: ['ignore', 'pipe', logFile === undefined ? 'pipe' : openSync(logFile, 'a')],
    },
  )
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const readStderr = (): string => (logFile === undefined ? stderr : readFileSync(logFile, 'utf8'))
  const finished = new Promise<Finished>((resolve) => {
    child.on('close', (code) => resolve({ code, stdout, stderr: readStderr() }))
  })
  /** Resolves with the URL of the listener's line, such as `tollgate listening on URL`. */
  const listening = async (listener: 'tollgate' | 'admin' | 'catalogue'): Promise<string> => {
    const line = new RegExp(`^${listener} listening on (\\S+)`, 'm')
    for (let attempt = 0; attempt < 1_600; attempt++) {
      const url = line.exec(stdout)?.[1]
      if (url !== undefined) return url
      if (child.exitCode !== null) break
      await new Promise((resolve) => setTimeout(resolve, 25))
    }
    throw new Error(`no ${listener} listener; stdout: ${stdout}; stderr: ${readStderr()}`)
  }
  const end = async (): Promise<void> => {
    child.kill('SIGKILL')
    await finished
  }
  gatewayEnds(end)
  return {
    child,
    pid: child.pid ?? 0,
    stdout: () => stdout,
    stderr: readStderr,
    listening,
    signal: (name: NodeJS.Signals) => void child.kill(name),
    finished,
    /** kill -9 if it still runs. */
    end,
  }
}

const folders: string[] = []
/** At the end of each test file, or of a script. */
export const removeFolders = (): void => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
}
process.once('exit', removeFolders)

/** A fresh folder that goes with the test file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-test-'))
  folders.push(folder)
  return folder
}

/** Writes text into a fresh folder and returns the file's path. */
export function temporaryFile(name: string, text: string | Uint8Array): string {
  const file = join(temporaryFolder(), name)
  writeFileSync(file, text)
  return file
}
