/** Runs Python with tenacity, the back-off library of Debian's package python3-tenacity. */
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'

/** Debian's own, which sees Debian's packages; another on PATH may not. */
const PYTHON = '/usr/bin/python3'
const hasTenacity = (): boolean => spawnSync(PYTHON, ['-c', 'import tenacity']).status === 0

/** Installs it with apt-get where that is allowed, else throws with the remedy. */
function ensureTenacity(): void {
  if (hasTenacity()) return
  const remedy =
    'python3-tenacity is needed by the tests. Install it: apt-get update && apt-get install -y python3-tenacity'
  if (process.getuid?.() !== 0 || spawnSync('apt-get', ['--version']).error) throw new Error(remedy)
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    execFileSync('apt-get', ['update', '-qq'], { stdio: 'ignore', env })
    execFileSync('apt-get', ['install', '-y', '-qq', 'python3-tenacity'], { stdio: 'ignore', env })
  } catch (cause) {
    throw new Error(remedy, { cause })
  }
  if (!hasTenacity()) throw new Error(remedy)
}

/** Runs the script with these arguments to its end; resolves with what it prints. */
export async function runTenacity(script: string, ...args: string[]): Promise<string> {
  ensureTenacity()
  return (await promisify(execFile)(PYTHON, ['-c', script, ...args])).stdout
}
