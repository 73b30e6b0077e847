import { compareAuthorities } from './authority-differential.ts'

compareAuthorities(600)
