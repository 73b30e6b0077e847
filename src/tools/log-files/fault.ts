/** A log that cannot be read, with the reason and the remedy that a command prints. */
export class LogFileFault extends Error {
  override readonly name = 'LogFileFault'
  readonly file: string
  readonly reason: string
  readonly remedy: string

  constructor(file: string, reason: string, remedy: string) {
    super(`cannot read the log ${file}`)
    this.file = file
    this.reason = reason
    this.remedy = remedy
  }
}

const byCode: Readonly<Record<string, readonly [reason: string, remedy: string]>> = {
  ENOENT: ['there is no such file', 'name one that exists'],
  EACCES: ['this user may not read it', 'give the right to read it, or run as its owner'],
  EPERM: ['this user may not read it', 'give the right to read it, or run as its owner'],
  EISDIR: ['it is a directory', 'name the files in it, such as DIR/*.log'],
  EMFILE: ['this process may open no more files', 'raise the limit of open files (ulimit -n)'],
}

export function faultOf(file: string, error: unknown): LogFileFault {
  if (error instanceof LogFileFault) return error
  const { code = '', message } = error as NodeJS.ErrnoException
  const [reason, remedy] = byCode[code] ?? [message, 'see whether the disk is well']
  return new LogFileFault(file, reason, remedy)
}
