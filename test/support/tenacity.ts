/** Runs Python with tenacity, the back-off library of Debian's package python3-tenacity. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { ensurePackage } from './debian-package.ts'

/** Debian's own, which sees Debian's packages; another on PATH may not. */
const PYTHON = '/usr/bin/python3'

/** Runs the script with these arguments to its end; resolves with what it prints. */
export async function runTenacity(script: string, ...args: string[]): Promise<string> {
  ensurePackage('python3-tenacity', { probe: [PYTHON, '-c', 'import tenacity'] })
  return (await promisify(execFile)(PYTHON, ['-c', script, ...args])).stdout
}
