import { compareAuthorities } from './authority-differential.ts'

compareAuthorities(2_000)
